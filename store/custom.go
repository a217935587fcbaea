package store

// customPrefix begins the custom types of troupe's own entries.
const customPrefix = "troupe."
