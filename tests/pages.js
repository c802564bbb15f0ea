// pages.js - looks at pages as a reader would see them: pages.sh puts this into a page with a frame for every page and width.
//
// For each frame a line "NAME WIDTH background COLOUR", and one "NAME WIDTH wrong: .." for all that is wrong: content wider than the
// page, text that can hardly be read, text of a picture that is cut off or lies upon another.

const CONTRAST = 4.5, CONTRAST_OF_LINES = 3; // WCAG 2.1, AA

function numbers(colour) { return (colour.match(/[\d.]+/g) || []).map(Number); }

// Relative luminance of an sRGB colour.
function luminance(colour) {
    const [r, g, b] = numbers(colour).slice(0, 3).map(x => x / 255).map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one, other) {
    const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
}

function isClear(colour) { return colour === "transparent" || (numbers(colour).length === 4 && numbers(colour)[3] === 0); }

// What is painted behind an element; white where nobody says, as a browser has it in light pages.
function background(view, element) {
    for (; element; element = element.parentElement) {
        const colour = view.getComputedStyle(element).backgroundColor;
        if (!isClear(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
}

function isPicture(element) { return element.namespaceURI === "http://www.w3.org/2000/svg"; }
function isScrolled(view, element) {
    for (; element; element = element.parentElement)
        if (/auto|scroll/.test(view.getComputedStyle(element).overflowX) && element !== element.ownerDocument.documentElement) return true;
    return false;
}

function short(text) { return JSON.stringify(text.trim().replace(/\s+/g, " ").slice(0, 40)); }

function textNodes(document) {
    const walk = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT), found = [];
    while (walk.nextNode()) {
        const parent = walk.currentNode.parentElement;
        if (!walk.currentNode.data.trim() || parent.closest("head, style, script, title")) continue;
        found.push(walk.currentNode);
    }
    return found;
}

// Boxes of two texts have an area in common that an eye would see.
function overlap(a, b) {
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left), high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    return wide > 2 && high > Math.min(a.height, b.height) / 3;
}

function look(frame) {
    const document = frame.contentDocument, view = frame.contentWindow, root = document.documentElement, said = [];
    const wrong = text => said.push("wrong: " + text);
    if (!textNodes(document).length) wrong("there is no text in it");

    if (root.scrollWidth > root.clientWidth && !isPicture(root)) {
        const culprits = [...document.querySelectorAll("body *")].filter(
            e => e.getBoundingClientRect().right > root.clientWidth + 0.5 && !isScrolled(view, e.parentElement));
        const last = culprits.filter(e => !culprits.some(o => o !== e && e.contains(o)))[0];
        wrong(`${root.scrollWidth} wide, the page is ${root.clientWidth}: ` + (last ? `<${last.localName}> ${short(last.textContent)}` : "?"));
    }

    for (const element of document.querySelectorAll("html, body, body *"))
        if (!isPicture(element) && /hidden|clip/.test(view.getComputedStyle(element).overflowX) && element.scrollWidth > element.clientWidth + 1)
            wrong(`cut off: <${element.localName}> ${short(element.textContent)}`);

    const behind = isPicture(root) ? background(view, root) : background(view, document.body);
    const hues = new Map(); // each pair of colours once
    const pictures = new Map();
    for (const node of textNodes(document)) {
        const element = node.parentElement, style = view.getComputedStyle(element), range = document.createRange();
        const colour = isPicture(element) ? style.fill : style.color, back = background(view, element);
        range.selectNodeContents(node);
        const box = range.getBoundingClientRect();
        if (!(contrast(colour, back) >= CONTRAST)) hues.set(colour + " on " + back, `contrast ${contrast(colour, back).toFixed(1)} of ${short(node.data)}`);
        if (!isPicture(element)) continue;
        // A part of a text, such as an exponent, belongs to its text.
        const text = element.closest("text"), picture = text.ownerSVGElement, frame = picture.getBoundingClientRect();
        const own = text.getBoundingClientRect();
        // Boxes are higher than letters: across the text a fifth of the font's size may be outside.
        const scale = frame.width / (picture.viewBox.baseVal.width || frame.width);
        const high = Math.max(parseFloat(style.fontSize) * scale / 5, 1), turned = /rotate/.test(text.getAttribute("transform"));
        const x = turned ? high : 1, y = turned ? 1 : high;
        if (own.left < frame.left - x || own.right > frame.right + x || own.top < frame.top - y || own.bottom > frame.bottom + y)
            wrong(`cut off at the edge of a picture: ${short(text.textContent)}`);
        if (!pictures.has(picture)) pictures.set(picture, new Map());
        pictures.get(picture).set(text, own);
    }
    for (const line of document.querySelectorAll(".line, .dot")) {
        const style = view.getComputedStyle(line), colour = line.matches(".dot") ? style.fill : style.stroke, back = background(view, line);
        if (!(contrast(colour, back) >= CONTRAST_OF_LINES)) hues.set(colour + " on " + back, `contrast ${contrast(colour, back).toFixed(1)} of a line`);
    }
    for (const [pair, text] of hues) wrong(`${text}: ${pair}`);
    for (const texts of pictures.values()) {
        const all = [...texts];
        for (let i = 0; i < all.length; i++)
            for (let k = 0; k < i; k++)
                if (overlap(all[i][1], all[k][1])) wrong(`one upon the other: ${short(all[i][0].textContent)}, ${short(all[k][0].textContent)}`);
    }
    said.push("background " + behind);
    return said.map(text => `${frame.name} ${text}`);
}

addEventListener("load", () => {
    let lines = [];
    for (const frame of document.querySelectorAll("iframe")) {
        try { lines = lines.concat(look(frame)); }
        catch (error) { lines.push(`${frame.name} wrong: cannot be looked at: ${error}`); }
    }
    const list = document.createElement("pre");
    list.textContent = lines.map(line => "SEEN " + line).join("\n");
    document.body.replaceChildren(list);
});
