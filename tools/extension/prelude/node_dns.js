// provides: node:dns, dns
"use strict";

const promises = {
  async lookup(name, o = {}) {
    const family = typeof o === "number" ? o : { IPv4: 4, IPv6: 6 }[o.family] ?? o.family ?? 0;
    const list = await host.start("dns.lookup", name, { family, all: true });
    return o.all ? list : list[0];
  },
  resolve: (name, type = "A") => host.start("dns.resolve", name, type), resolve4: (name) => host.start("dns.resolve", name, "A"), resolve6: (name) => host.start("dns.resolve", name, "AAAA"),
  resolveTxt: async (name) => (await host.start("dns.resolve", name, "TXT")).map((t) => [t]), resolveCname: (name) => host.start("dns.resolve", name, "CNAME"),
  resolveNs: (name) => host.start("dns.resolve", name, "NS"), reverse: (ip) => host.start("dns.resolve", ip, "PTR"), setServers() {}, getServers: () => [],
};
const back = (f, spread) => (...args) => {
  const callback = args.pop();
  f(...args).then((v) => spread && !Array.isArray(v) ? callback(null, v.address, v.family) : callback(null, v), callback);
};
module.exports = {
  promises, ...Object.fromEntries(Object.entries(promises).map(([k, f]) => [k, /Servers$/.test(k) ? f : back(f, k === "lookup")])), setDefaultResultOrder() {}, getDefaultResultOrder: () => "verbatim",
  NOTFOUND: "ENOTFOUND", NODATA: "ENODATA", ADDRCONFIG: 32, V4MAPPED: 8, ALL: 16,
};
module.exports.lookup[Symbol.for("nodejs.util.promisify.custom")] = promises.lookup;
