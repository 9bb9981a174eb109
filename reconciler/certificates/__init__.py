"""Certificates of the webhook as a controller: package `certs` knows what to do, this one runs it while leading.

`certs` stands below both programs and knows neither queues nor terms nor events; see the decision on it.
"""
