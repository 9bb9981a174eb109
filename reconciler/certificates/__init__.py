"""Certificates of the webhook as a controller: package `certs` knows what to do, this one runs it while leading.

`controller` says when, `wiring` puts it together.

`certs` stands below both programs and knows neither queues nor terms nor events; see the decision on it.
"""
