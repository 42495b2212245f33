package verification

// Judged is the judgement alone, for snapshots that tests make up.
var Judged = judged
