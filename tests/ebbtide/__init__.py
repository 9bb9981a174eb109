"""Tests of the shared ground."""
