"""Transposes through registers or shared memory."""
