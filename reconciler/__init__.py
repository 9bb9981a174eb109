"""The leader-elected program: watches the cluster, decides, acts."""
