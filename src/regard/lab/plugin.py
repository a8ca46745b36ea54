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
    "sst": "texts.text_classification:SST",
    "classification": "texts.own_texts:OwnTexts",
    "translation": "translation.own_translation:OwnTranslation",
    "movies": "texts.documents:Movies",
    "agnews": "texts.text_classification:AGNews",
    "multi30k": "translation.translation:Multi30k",
    "spoken": "speech:Spoken",
    "denoise": "images.digits:Denoise",
    "fixations": "images.photographs:TaughtFixations",
    "tu": "graphs.graph_classification:TU",
    "molecules": "graphs.graph_classification:Molecules",
    "drugs": "drugs.drug_response:Drugs",
    "retrieval": "planted:Retrieval",
    "cipher": "translation.translation:Cipher",
    "clutter": "images.digits:Clutter",
    "motifs": "graphs.graph_classification:Motifs",
}
TASKS = {name: f"regard.lab.tasks.{place}" for name, place in _TASKS.items()}

STUDY_TASKS = {
    "gat": "regard.lab.tasks.graphs.node_study:OneGraph",
    "nodes": "regard.lab.comparisons.nodes:NodeBenchmark",
    "sequences": "regard.lab.comparisons.sequences:SequenceBenchmark",
    "hetero": "regard.lab.tasks.graphs.hetero_study:TypedGraph",
    "response": "regard.lab.drug_response.study_task:Response",
    "scenes": "regard.lab.tasks.images.scene_study:Photographs",
}

# Functions that the trials of stored studies call, by the module that they were in.
MOVED = {
    "regard.lab.tasks.node_study:run_graph": "regard.lab.tasks.graphs.node_study:run_graph",
    "regard.lab.tasks.hetero_study:run_typed": "regard.lab.tasks.graphs.hetero_study:run_typed",
    "regard.lab.tasks.scene_study:run_scenes": "regard.lab.tasks.images.scene_study:run_scenes",
    "regard.lab.drug_response.trial:run_response": "regard.lab.drug_response.protocol.trial:run_response",
}
