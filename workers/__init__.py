"""Lease jobs, run an engine, send events back."""
