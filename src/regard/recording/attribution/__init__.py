"""Maps and scores computed from a record: rollout, flow, norms, relevance, what heads do."""
