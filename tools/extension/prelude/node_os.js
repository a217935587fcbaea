// provides: node:os, os
"use strict";

const boot = host.boot;
const errno = {
  E2BIG: 7, EACCES: 13, EADDRINUSE: 98, EADDRNOTAVAIL: 99, EAGAIN: 11, EBADF: 9, EBUSY: 16, ECANCELED: 125, ECHILD: 10, ECONNABORTED: 103, ECONNREFUSED: 111,
  ECONNRESET: 104, EDOM: 33, EEXIST: 17, EFAULT: 14, EFBIG: 27, EHOSTUNREACH: 113, EINTR: 4, EINVAL: 22, EIO: 5, EISCONN: 106, EISDIR: 21, ELOOP: 40, EMFILE: 24,
  EMLINK: 31, ENAMETOOLONG: 36, ENETUNREACH: 101, ENFILE: 23, ENODEV: 19, ENOENT: 2, ENOEXEC: 8, ENOMEM: 12, ENOSPC: 28, ENOSYS: 38, ENOTCONN: 107, ENOTDIR: 20,
  ENOTEMPTY: 39, ENOTSUP: 95, ENOTTY: 25, ENXIO: 6, EPERM: 1, EPIPE: 32, ERANGE: 34, EROFS: 30, ESPIPE: 29, ESRCH: 3, ETIMEDOUT: 110, ETXTBSY: 26, EXDEV: 18,
};
const signals = {
  SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGILL: 4, SIGTRAP: 5, SIGABRT: 6, SIGIOT: 6, SIGBUS: 7, SIGFPE: 8, SIGKILL: 9, SIGUSR1: 10, SIGSEGV: 11, SIGUSR2: 12,
  SIGPIPE: 13, SIGALRM: 14, SIGTERM: 15, SIGCHLD: 17, SIGSTKFLT: 16, SIGCONT: 18, SIGSTOP: 19, SIGTSTP: 20, SIGTTIN: 21, SIGTTOU: 22, SIGURG: 23, SIGXCPU: 24,
  SIGXFSZ: 25, SIGVTALRM: 26, SIGPROF: 27, SIGWINCH: 28, SIGIO: 29, SIGPOLL: 29, SIGPWR: 30, SIGSYS: 31,
};
const read = (path) => {
  try {
    return new TextDecoder().decode(host.op("fs.readFile", path));
  } catch {
    return "";
  }
};
const env = () => require("process").env;

module.exports = {
  EOL: boot.eol, devNull: "/dev/null", constants: { errno, signals, priority: { PRIORITY_LOW: 19, PRIORITY_BELOW_NORMAL: 10, PRIORITY_NORMAL: 0, PRIORITY_ABOVE_NORMAL: -7, PRIORITY_HIGH: -14, PRIORITY_HIGHEST: -20 }, UV_UDP_REUSEADDR: 4, dlopen: { RTLD_LAZY: 1, RTLD_NOW: 2, RTLD_GLOBAL: 256, RTLD_LOCAL: 0 } },
  arch: () => boot.arch, platform: () => boot.platform, type: () => boot.osType, release: () => boot.release, version: () => boot.osVersion, machine: () => ({ x64: "x86_64", arm64: "aarch64" })[boot.arch] ?? boot.arch,
  hostname: () => boot.hostname, endianness: () => "LE",
  homedir: () => env().HOME || boot.homedir, tmpdir: () => (env().TMPDIR || env().TMP || env().TEMP || boot.tmpdir).replace(/(.)\/$/, "$1"),
  userInfo: (options) => {
    const u = { uid: boot.user.uid, gid: boot.user.gid, username: boot.user.username, homedir: boot.user.homedir, shell: boot.user.shell };
    if (options?.encoding === "buffer") for (const k of ["username", "homedir", "shell"]) u[k] = require("buffer").Buffer.from(u[k]);
    return u;
  },
  cpus: () => Array.from({ length: boot.cpus }, () => ({ model: "cpu", speed: 0, times: { user: 0, nice: 0, sys: 0, idle: 0, irq: 0 } })), availableParallelism: () => boot.cpus,
  totalmem: () => boot.totalmem,
  freemem: () => 1024 * (+/^MemAvailable:\s+(\d+)/m.exec(read("/proc/meminfo"))?.[1] || Math.floor(boot.totalmem / 2048)),
  uptime: () => parseFloat(read("/proc/uptime")) || 0, loadavg: () => [0, 1, 2].map((i) => parseFloat(read("/proc/loadavg").split(" ")[i]) || 0),
  networkInterfaces: () => ({}), getPriority: () => 0, setPriority() {},
};
