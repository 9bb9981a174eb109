"""Admission webhook: keeps new load-data workers out of blocked zones."""
