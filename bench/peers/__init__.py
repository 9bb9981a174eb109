"""What figures are compared with: the least that could do the job, and how others do it."""
