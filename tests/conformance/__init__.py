"""What ebbtide relies on an API server to do, asked of the real one and of the embedded cluster alike.

The real server is the truth: a test is written against it first, and the embedded cluster follows.
"""
