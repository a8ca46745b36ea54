"""Study tasks that compare layers and mechanisms within one network, with equal tuning."""
