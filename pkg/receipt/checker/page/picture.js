// The picture of the chain of proof: two rows of four nodes, and between them how each
// step is known. On a narrow screen the rows are columns.
const svgElement = (name, attributes = {}, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
};

const marks = {
  proven: ["path", { d: "m-5 .3 3.4 3.6L5-4" }],
  attested: ["path", { d: "m-4.2 4.4.9-3.2L2.6-4.7l2.2 2.2-5.9 5.9Z" }],
  absent: ["path", { d: "M-4.5 0h9" }],
  fails: ["path", { d: "m-4-4 8 8m0-8-8 8" }],
};

// drawChain returns the picture. rows is a list of {title, nodes: [[label, value]], links:
// [state]}; there is one link fewer than nodes.
const drawChain = (rows, words, narrow) => {
  const width = narrow ? 350 : 920, box = narrow ? { w: 164, h: 58 } : { w: 152, h: 66 };
  const step = narrow ? 112 : (width - box.w) / 3, rowAt = (r) => (narrow ? r * 186 : r * 148);
  const height = narrow ? 30 + 3 * step + box.h + 6 : 30 + 148 + box.h + 30;
  const picture = svgElement("svg", { viewBox: `0 0 ${width} ${height}`, class: "chain", role: "img", "aria-labelledby": "chain-title chain-desc" });
  const sentences = rows.flatMap(({ nodes, links }) => links.map((state, i) => words.pictureOf(nodes[i][0], nodes[i + 1][0], words.states[state])));
  picture.append(svgElement("title", { id: "chain-title" }, words.chainTitle), svgElement("desc", { id: "chain-desc" }, sentences.join(" ")));
  rows.forEach(({ title, nodes, links }, r) => {
    const at = (i) => (narrow ? { x: rowAt(r), y: 30 + i * step } : { x: i * step, y: 30 + rowAt(r) });
    const heading = svgElement("text", { x: at(0).x, y: at(0).y - 13, class: "row-title" });
    heading.append(title);
    picture.append(heading);
    links.forEach((state, i) => {
      const a = at(i), b = at(i + 1);
      const line = narrow ? { x1: a.x + 30, y1: a.y + box.h, x2: b.x + 30, y2: b.y } : { x1: a.x + box.w, y1: a.y + box.h / 2, x2: b.x, y2: b.y + box.h / 2 };
      const middle = { x: (line.x1 + line.x2) / 2, y: (line.y1 + line.y2) / 2 };
      const [shape, attributes] = marks[state];
      picture.append(svgElement("g", { class: `link ${state}` },
        svgElement("line", line),
        svgElement("g", { transform: `translate(${middle.x} ${middle.y})` }, svgElement("circle", { r: 12 }), svgElement(shape, attributes)),
        svgElement("text", narrow ? { x: middle.x + 20, y: middle.y + 4.5 } : { x: middle.x, y: middle.y + 31, "text-anchor": "middle" }, words.inPicture[state])));
    });
    nodes.forEach(([label, value], i) => {
      const { x, y } = at(i);
      picture.append(svgElement("g", { class: "node" },
        svgElement("rect", { x: x + 0.75, y: y + 0.75, width: box.w - 1.5, height: box.h - 1.5, rx: 11 }),
        svgElement("text", { x: x + box.w / 2, y: y + box.h / 2 - (value ? 5 : -5), "text-anchor": "middle", class: "label" }, label),
        svgElement("text", { x: x + box.w / 2, y: y + box.h / 2 + 16, "text-anchor": "middle", class: "value" }, value || "")));
    });
  });
  return picture;
};
