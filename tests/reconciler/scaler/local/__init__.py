"""Tasks on the pods of the template."""
