"""One module for each deployer: a plan in, the files that this deployer works with out."""
