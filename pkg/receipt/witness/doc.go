// Package witness is a witness of logs (C2SP tlog-witness): it cosigns only a checkpoint that
// continues the one that it cosigned last, and so never two histories of one log. What it has
// cosigned is in one file, which is on disk before a signature leaves. A witness that has lost
// its file must be given up with its key, and so must one whose file was put back from a copy.
package witness
