"""The dialects, sans-IO: body to call, event to bytes, error to body."""
