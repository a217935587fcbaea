// The connection: commands with their answers, events, and coming back.

// Failure is an answer that says no, or that nobody is there to ask.
class Failure extends Error {
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

const firstWait = 500; // ms until the next attempt; doubles
const longestWait = 15_000;
const silence = 45_000; // ms without a record, where the daemon sends heartbeats
const early = new Set(["attach", "list_sessions", "close_session"]); // what may name a session before it is attached to

class Link {
  // handlers: up(info), which calls ready, down(why), event(record), refused().
  constructor(handlers) {
    this.handlers = handlers;
    this.waiting = new Map(); // id to {command, socket it was sent on or null, resolve, reject}
    this.number = 0;
    this.prefix = randomId(6);
    this.wait = firstWait;
    this.timer = 0;
    this.socket = null;
    this.open = false; // the daemon has answered the hello
    this.attached = false; // and the sessions of the page are attached: they can be spoken to
    this.heard = 0;
    this.commands = new Set();
    this.features = new Set();
    this.images = new Map(); // by ref: a promise of an address for this page
    fetchPicture = (ref) => this.image(ref);
    addEventListener("online", () => this.again());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.again());
    setInterval(() => this.watch(), 5_000);
  }

  connect(token) {
    this.token = token;
    clearTimeout(this.timer);
    const address = (location.protocol === "https:" ? "wss://" : "ws://") + location.host + "/v1/ws";
    let socket;
    try {
      socket = new WebSocket(address, ["troupe.v1.lines", "troupe.auth." + base64url(token)]);
    } catch {
      return this.lost("The browser refused the connection.");
    }
    this.socket = socket;
    let opened = false;
    socket.onopen = () => {
      opened = true;
      this.heard = Date.now();
      this.greet(socket);
    };
    socket.onmessage = ({ data }) => {
      this.heard = Date.now();
      if (socket !== this.socket || typeof data !== "string") return;
      for (const line of data.split("\n")) if (line !== "") this.record(line);
    };
    socket.onclose = (event) => {
      if (socket !== this.socket) return;
      this.socket = null;
      if (!opened) return this.handlers.refused().then((known) => known || this.lost("The server does not answer."));
      if (event.code === 1008) return this.handlers.refused(true);
      if (event.code === 4003) sessionStorage.removeItem("troupe-client"); // a copy of this tab has its name
      this.lost(event.reason || "The connection was lost.");
    };
  }

  // greet says what this page understands and asks what the daemon does.
  async greet(socket) {
    const features = ["seq", "deltaUpdates", "queueUpdate", "settingEvents", "entryEvents", "bashUpdates", "compactionEvents",
      "compactionEventsOnly", "approvals", "uiAck", "maxLevel", "stateEvents", "dialogEvents", "sessionEvents", "snapshots", "heartbeat", "imageRefs", "auth", "openUrl", "secretInput"];
    try {
      const info = await this.write({
        type: "hello", features, clientId: clientId(), client: { name: "page", version: "1" },
        ui: ["select", "confirm", "input", "editor", "approval", "notify"],
      }, socket);
      this.commands = new Set(info.commands);
      this.features = new Set(info.features);
      this.open = true;
      this.wait = firstWait;
      this.handlers.up(info);
    } catch (error) {
      socket.close(1000);
      this.lost(error.message);
    }
  }

  record(line) {
    let record;
    try {
      record = JSON.parse(line);
    } catch {
      return console.warn("not a record", line.slice(0, 200));
    }
    if (record.type !== "response") return this.handlers.event(record);
    const asked = this.waiting.get(record.id);
    if (!asked) return;
    this.waiting.delete(record.id);
    if (record.success) {
      asked.resolve(Object.assign(record.data ?? {}, {}));
    } else asked.reject(new Failure(str(record.error) || "refused", str(record.code)));
  }

  // ready sends what waits for the sessions of the page to be attached again.
  ready() {
    if (!this.open) return;
    this.attached = true;
    for (const asked of this.waiting.values()) if (asked.socket !== this.socket) this.post(asked);
  }

  // ask sends a command. What is for a session waits until that is attached. Commands
  // with an idempotency key wait for a connection, too, and are sent again if one breaks
  // before their answer; others fail.
  ask(type, parameters = {}) {
    return this.send({ type, ...parameters });
  }

  send(command) {
    if (!this.open && !command.idempotencyKey) return Promise.reject(new Failure("There is no connection.", "offline"));
    const now = this.attached || (this.open && (!command.sessionId || early.has(command.type)));
    return this.write(command, now ? this.socket : null);
  }

  write(command, socket) {
    command.id ??= this.prefix + "-" + ++this.number; // an answer to a dialog has the id of the dialog
    return new Promise((resolve, reject) => {
      const asked = { command, socket: null, resolve, reject };
      this.waiting.set(command.id, asked);
      if (socket) this.post(asked, socket);
    });
  }

  // refuse answers a command that cannot be sent any more.
  refuse(command, why) {
    const asked = this.waiting.get(command.id);
    this.waiting.delete(command.id);
    asked?.reject(new Failure(why, ""));
  }

  post(asked, socket = this.socket) {
    asked.socket = socket;
    socket.send(JSON.stringify(asked.command));
  }

  lost(why) {
    this.open = this.attached = false;
    for (const [id, { command, reject }] of this.waiting) {
      if (command.idempotencyKey) continue;
      this.waiting.delete(id);
      reject(new Failure("The connection was lost.", "offline"));
    }
    this.handlers.down(why);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.connect(this.token), this.wait * (0.75 + Math.random() / 2));
    this.wait = Math.min(2 * this.wait, longestWait);
  }

  // again tries at once.
  again() {
    if (this.socket || !this.token) return;
    this.wait = firstWait;
    this.connect(this.token);
  }

  // watch gives up a connection that is silent although heartbeats were agreed.
  watch() {
    if (!this.open || !this.features.has("heartbeat") || Math.abs(Date.now() - this.heard) < silence) return; // a clock may be set
    const socket = this.socket;
    this.socket = null;
    socket.close(4001);
    this.lost("The server has sent nothing for a while.");
  }

  // image gets a picture. Its ref never means another one.
  image(ref) {
    let address = this.images.get(ref);
    if (!address) {
      address = this.fetchImage(ref);
      this.images.set(ref, address);
      address.catch(() => this.images.delete(ref));
    }
    return address;
  }

  // imageData returns a picture of an entry with its bytes in base64, as a message has it.
  async imageData({ ref, mimeType, data, bytes }) {
    if (data) return { mimeType, data, size: (data.length / 4) * 3 };
    const blob = await this.imageBlob(ref);
    return { mimeType: mimeType || blob.type, data: await base64Of(blob), size: num(bytes) || blob.size };
  }

  async fetchImage(ref) {
    return URL.createObjectURL(await this.imageBlob(ref));
  }

  async imageBlob(ref) {
    const path = ref.split("/").map(encodeURIComponent).join("/");
    const answer = await fetch("/v1/image/" + path, { headers: { Authorization: "Bearer " + this.token } });
    if (!answer.ok) throw new Failure((await answer.text()).trim(), "");
    return answer.blob();
  }

  leave() {
    clearTimeout(this.timer);
    const socket = this.socket;
    this.socket = null;
    this.token = "";
    this.images.clear();
    this.open = this.attached = false;
    socket?.close(1000);
  }
}

function randomId(bytes = 12) {
  return base64url(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(bytes)))).replaceAll("-", "A").replaceAll("_", "B");
}

function base64url(text) {
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function base64Of(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}

// clientId names this browser tab, over reloads.
function clientId() {
  let id = sessionStorage.getItem("troupe-client");
  if (!id) sessionStorage.setItem("troupe-client", (id = randomId()));
  return id;
}
