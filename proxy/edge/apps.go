package edge

// hopHeader tells a request that came back to the proxy which sent it.
const hopHeader = "X-Pforte-Hop"
