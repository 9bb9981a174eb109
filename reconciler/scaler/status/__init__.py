"""What workers say of their tasks: asked again and again, and what they said last.

    ask      one worker, one question: bounded in time and size
    book     the last answers by pod; what speaks for another pod, or another life of it, is not taken
    clusters the clusters whose tasks are asked for
    rounds   asks all of them every refresh interval, the silent ones beside the others

What a worker does not say is unknown. Unknown is never unused.
"""
