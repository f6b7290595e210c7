"""What the service delivers and what it costs, measured against what it promises and against a bare server."""
