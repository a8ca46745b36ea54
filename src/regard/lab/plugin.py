"""What `lab` declares to `regard.data.registry`; any installed package may declare its own in the same way."""

_DATA = {
    "acm": "acm",
    "agnews": "ag_news",
    "drugs": "drug_graphs drug_response",
    "eye_tracking": "Reading Scene geco scenes",
    "heterophilous": "heterophilous",
    "lookup": "Lookup dictionary_lookup",
    "mnist": "mnist noisy_mnist",
    "molecules": "molecules",
    "movies": "Review movies reviews",
    "multi30k": "multi30k",
    "planetoid": "planetoid",
    "planted": "cipher clutter csbm far motifs retrieval two_relations",
    "spoken_digits": "spoken_strings",
    "sst": "sst",
    "tu_graphs": "tu",
    "word_alignments": "gold_alignments reference_alignments",
}
DATA = {name: f"regard.lab.data.{module}:{name}" for module, names in _DATA.items() for name in names.split()}

_TASKS = {
    "sst": "texts:SST",
    "movies": "documents:Movies",
    "agnews": "texts:AGNews",
    "multi30k": "translation:Multi30k",
    "spoken": "speech:Spoken",
    "denoise": "images:Denoise",
    "tu": "graphs:TU",
    "molecules": "graphs:Molecules",
    "drugs": "drugs:Drugs",
    "retrieval": "planted:Retrieval",
    "cipher": "translation:Cipher",
    "clutter": "images:Clutter",
    "motifs": "graphs:Motifs",
}
TASKS = {name: f"regard.lab.tasks.{place}" for name, place in _TASKS.items()}

STUDY_TASKS = {"gat": "regard.lab.tasks.node_study:OneGraph"}
