"""Time the steps that README describes, on a fresh machine."""
