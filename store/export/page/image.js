// Pictures, of the types that hold pixels and nothing else.

const imageTypes = ["image/png", "image/jpeg", "image/gif", "image/webp"];

const notBase64 = /[^A-Za-z0-9+/=]/;

// dataImage reports whether an address is an image of an allowed type that it
// contains itself.
function dataImage(address) {
  const m = /^data:([a-z]+\/[a-z]+);base64,/i.exec(str(address));
  return m !== null && imageTypes.includes(m[1].toLowerCase()) && !notBase64.test(address.slice(m[0].length));
}

// fetchPicture gets the address of a picture that a block has only a ref of. Who shows such
// blocks sets it.
let fetchPicture = null;

// picture shows an image block.
function picture(block, alt = "Image") {
  if (fetchPicture && typeof block.ref === "string") return pictureByRef(block, alt);
  const type = str(block.mimeType).toLowerCase();
  const data = str(block.data);
  const address = "data:" + type + ";base64," + data;
  if (!dataImage(address)) {
    return el("p", { class: "notice" }, "Image not shown: " + (type || "no type") + ", " + count(data.length, "character"));
  }
  return el("figure", { class: "picture" }, makeZoomable(el("img", { src: address, alt })));
}

function pictureByRef(block, alt) {
  const figure = el("figure", { class: "picture" });
  fetchPicture(block.ref).then(
    (address) => figure.append(makeZoomable(el("img", { src: address, alt }))),
    (error) => figure.append(el("p", { class: "notice" }, "Image not shown: " + error.message)),
  );
  return figure;
}

function makeZoomable(image) {
  image.setAttribute("tabindex", "0");
  image.setAttribute("role", "button");
  image.setAttribute("title", "Show large");
  image.addEventListener("click", () => enlarge(image));
  image.addEventListener("keydown", (event) => event.key === "Enter" && enlarge(image));
  return image;
}

function enlarge(image) {
  const viewer = byId("viewer");
  viewer.replaceChildren(el("img", { src: image.src, alt: image.alt }));
  viewer.onclick = () => viewer.close();
  viewer.showModal();
}
