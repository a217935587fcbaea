package git

const mergeKey = "TROUPE_TEST_MERGE"

func mergeSteps(dir string) {}
