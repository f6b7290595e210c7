"""HTTP in, HTTP out: admits requests, queues jobs, relays their events."""
