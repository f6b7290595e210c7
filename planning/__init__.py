"""Questions to the catalog, answered without starting the service: how accurate it is, what a fleet would do."""
