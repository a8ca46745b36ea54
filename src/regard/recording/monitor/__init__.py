"""Attention statistics while a model trains: sampled rows, alarms, logs."""
