"""The status page in Chromium: what a reader sees, hears and can reach."""
