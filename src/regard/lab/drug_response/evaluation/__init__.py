"""Metrics, paired tests, judgement of the attention, tables and figures."""
