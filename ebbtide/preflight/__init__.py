"""Looking for settings of a cluster that would defeat the block: `snapshot` reads, the checks judge.

`decide` is the table of contents of the checks. Each is a pure function of the facts and gives findings; a part of the
cluster that could not be read makes its checks unknown and leaves the others alone.
"""
