"""Tasks that run on the pods of the template itself.

memory       which pod has which task, from their lists and from what was promised
decide       the pod for the next one
controller   the placement
"""
