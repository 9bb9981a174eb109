"""The programs around an API server, small: kubelets, scheduler, workload controllers, volume binder, autoscaler, spot.

Each is a pure decision (objects and time in, what to write out) with a thin loop around it. They read and write the
embedded server's storage directly, wait only on loop timers, so that they run on simulated time, and take every random
choice from the generator that they are handed. What they copy from the real programs, and from which version, is said
where it is copied.
"""
