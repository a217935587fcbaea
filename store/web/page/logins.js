// Logins: how requests to providers are authenticated, and the questions of signing in.

const stateWords = {
  ready: "ready", expiring: "ready, could not be renewed", expired: "renewed with the next request", invalid: "sign in again", none: "no credentials", unsupported: "not used",
};

class Logins {
  constructor(app) {
    this.app = app;
    this.dialog = byId("login");
    this.asked = null; // the request that the dialog is for
    this.listed = false;
    this.dialog.addEventListener("cancel", () => this.answer({ cancelled: true })); // Escape; a close comes too late to say of what
  }

  // allowed reports whether the server lets this page sign in. To cancel a login that does not exist changes
  // nothing, and is forbidden where signing in is.
  async allowed() {
    const { link, readOnly } = this.app;
    if (readOnly || !link.commands.has("cancel_login")) return false;
    return link.ask("cancel_login", { provider: "-" }).then(() => true, (error) => error.code === "not_found");
  }

  // list shows the providers, and who can be signed in to from here.
  async list() {
    if (!this.app.link.commands.has("get_auth")) return this.app.alert("This server does not report credentials.");
    const auth = await this.app.tell("get_auth", {});
    if (!auth) return;
    const rows = el("div", { class: "logins" });
    this.changes = await this.allowed();
    this.app.sheets.open("Credentials", [!this.changes && !this.app.readOnly &&
      el("p", { class: "meta" }, "Signing in over the network is off. Run ", el("code", null, "troupe login"), " on the machine of the server, or start the server with ", el("code", null, "--allow-login"), "."), rows]);
    this.listed = rows;
    this.fill(auth.providers);
  }

  // fill draws the list that is open.
  fill(providers) {
    const button = (text, click) => el("button", { type: "button", click }, text);
    this.listed.replaceChildren(...(Array.isArray(providers) ? providers : []).map((p) => el("section", { "data-provider": p.id },
      el("h3", null, str(p.name) || p.id),
      el("p", { class: p.state === "invalid" ? "notice bad" : "meta" },
        [stateWords[p.state] ?? str(p.state), str(p.source).replaceAll("_", " "), str(p.variable), str(p.account), num(p.usedBy) && count(p.usedBy, "session"), str(p.reason), str(p.hint)].filter(Boolean).join(" · ")),
      this.changes && el("div", { class: "answers" },
        ["paste", "device"].some((m) => p.methods?.includes(m)) && button("Sign in", () => this.signIn(p)),
        str(p.source).startsWith("stored_") && button("Sign out", () => this.app.tell("logout", { provider: p.id }))))));
  }

  async signIn(p) {
    const done = await this.app.tell("login", { provider: p.id, method: p.methods.includes("device") ? "device" : "paste" });
    this.end();
    if (done) this.app.alert("Signed in to " + (str(p.name) || p.id) + (done.account ? " as " + done.account : ""));
  }

  // changed draws the list again, if somebody looks at it, and names what is over.
  async changed({ provider, state, reason }) {
    if (state === "invalid") this.app.alert(`${provider}: ${str(reason) || "sign in again"}`);
    if (this.app.view?.unused) this.app.loadKeys(this.app.view);
    if (!this.listed?.isConnected) return;
    const auth = await this.app.tell("get_auth", {});
    if (auth && this.listed.isConnected) this.fill(auth.providers);
  }

  // request shows a question of a login, which only the page that has begun it is asked.
  request(ev) {
    if (ev.method === "notify") return this.app.alert(str(ev.message));
    this.end();
    this.asked = ev;
    const field = el("input", { type: ev.secret ? "password" : "text", autocomplete: "off", spellcheck: "false", "aria-label": "Answer" });
    const buttons = (ev.options ?? []).map((o) => el("button", { type: "button", click: () => this.answer({ value: o }) }, str(o)));
    const typed = el("form", { class: "fields", submit: (e) => {
      e.preventDefault();
      this.answer({ value: field.value });
    } }, ev.method === "open_url" && el("label", null, "The address in the browser at the end, even if its page cannot be shown", field) || field,
    el("button", { type: "submit", class: "primary" }, "Continue"));
    const safe = /^https:|^http:\/\/(127\.0\.0\.1|localhost|\[::1\])[:/]/.test(str(ev.url));
    this.dialog.replaceChildren(el("div", { class: "sheet" },
      el("header", null, el("h2", { id: "login-title" }, str(ev.title) || "Sign in"),
        el("button", { type: "button", "aria-label": "Cancel", click: () => this.answer({ cancelled: true }) }, icon("wrong"))),
      safe && el("p", null, el("a", { href: str(ev.launchUrl) || ev.url, target: "_blank", rel: "noopener noreferrer" }, "Open the page of the provider")),
      ev.code && el("p", null, "Type this code there: ", el("strong", null, el("code", null, str(ev.code)))),
      ev.method === "select" ? el("div", { class: "answers column" }, buttons) : !ev.code && typed));
    this.dialog.showModal();
  }

  answer(value) {
    const ev = this.asked;
    this.asked = null;
    if (ev) this.app.tell("extension_ui_response", { id: ev.id, ...value });
    if (this.dialog.open) this.dialog.close();
  }

  // end takes the dialog away, without an answer.
  end() {
    this.asked = null;
    this.dialog.replaceChildren();
    if (this.dialog.open) this.dialog.close();
  }
}
