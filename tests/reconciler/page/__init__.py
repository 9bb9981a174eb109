"""Tests of the status page without a browser: what is served, and what it must not ask for."""
