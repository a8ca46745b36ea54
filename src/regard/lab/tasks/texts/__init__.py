"""Tasks on texts: classification, documents with rationales, fine-tuning."""
