"""Tests of the API client: all speak HTTP to a scripted server on loopback."""
