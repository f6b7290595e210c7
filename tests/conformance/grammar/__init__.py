"""What a client may rely on of each surface's streams, from the vendors' documents, and independent of our encoders.

Each module reads a stream, complains about whatever is out of order, and returns what it said: the same value that it
reads from a whole answer.
"""
