"""Tests of the machinery under the controllers."""
