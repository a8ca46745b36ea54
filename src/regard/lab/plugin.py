"""Data sets and tasks that `lab` registers through its entry point, as any installed package may."""

_DATA = {
    "acm": "acm",
    "agnews": "ag_news",
    "drug_panel": "DrugPanel drug_panel",
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
    "classification": "own_texts:OwnTexts",
    "translation": "own_translation:OwnTranslation",
    "movies": "documents:Movies",
    "agnews": "texts:AGNews",
    "multi30k": "translation:Multi30k",
    "spoken": "speech:Spoken",
    "denoise": "images:Denoise",
    "fixations": "photographs:TaughtFixations",
    "tu": "graphs:TU",
    "molecules": "graphs:Molecules",
    "drugs": "drugs:Drugs",
    "retrieval": "planted:Retrieval",
    "cipher": "translation:Cipher",
    "clutter": "images:Clutter",
    "motifs": "graphs:Motifs",
}
TASKS = {name: f"regard.lab.tasks.{place}" for name, place in _TASKS.items()}

STUDY_TASKS = {
    "gat": "regard.lab.tasks.node_study:OneGraph",
    "nodes": "regard.lab.comparisons.nodes:NodeBenchmark",
    "sequences": "regard.lab.comparisons.sequences:SequenceBenchmark",
    "hetero": "regard.lab.tasks.hetero_study:TypedGraph",
    "response": "regard.lab.drug_response.study_task:Response",
    "scenes": "regard.lab.tasks.scene_study:Photographs",
}
