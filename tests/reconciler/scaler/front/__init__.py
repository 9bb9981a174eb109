"""The front: what it says to every request in every state, over real HTTP."""
