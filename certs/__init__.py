"""Certificates of the admission webhook: issue, keep, rotate, publish. Code only; key files never lie here."""
