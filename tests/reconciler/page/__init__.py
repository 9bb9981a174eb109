"""Tests that documentation says what the program does."""
