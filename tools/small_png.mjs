// smallPng(BYTES): the same picture with at most 256 colours, a third of the size. For what Chromium takes: 8 bits a channel, not interlaced.
import { deflateSync, inflateSync } from "node:zlib";

const COLOURS = 256;

function chunksOf(bytes) {
  const found = [];
  for (let at = 8; at < bytes.length; ) {
    const size = bytes.readUInt32BE(at);
    found.push({ type: bytes.toString("latin1", at + 4, at + 8), data: bytes.subarray(at + 8, at + 8 + size) });
    at += size + 12;
  }
  return found;
}

/** The pixels, `step` bytes each, without the filters of their lines. */
function unfilter(raw, width, height, step) {
  const line = width * step;
  const out = Buffer.alloc(line * height);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (line + 1)];
    for (let x = 0; x < line; x++) {
      const left = x >= step ? out[y * line + x - step] : 0;
      const up = y > 0 ? out[(y - 1) * line + x] : 0;
      const corner = y > 0 && x >= step ? out[(y - 1) * line + x - step] : 0;
      const guess = left + up - corner;
      const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)];
      const paeth = a <= b && a <= c ? left : b <= c ? up : corner;
      out[y * line + x] = raw[y * (line + 1) + 1 + x] + [0, left, up, (left + up) >> 1, paeth][filter];
    }
  }
  return out;
}

/** For each colour of the picture its place in a palette. The next entry is always the colour that would be shown most wrongly: a small mark
 * keeps its colour, too. */
function paletteOf(counts) {
  const colours = [...counts].map(([colour, count]) => ({ colour, weight: Math.sqrt(count), place: 0, error: Infinity })).sort((a, b) => b.weight - a.weight);
  const distance = (one, other) => [16, 8, 0].reduce((sum, shift) => sum + (((one >> shift) & 255) - ((other >> shift) & 255)) ** 2, 0);
  const palette = [];
  for (let next = colours[0]; next.error > 0 && palette.length < COLOURS; next = colours.reduce((worst, one) => (one.error * one.weight > worst.error * worst.weight ? one : worst))) {
    palette.push(next.colour);
    for (const one of colours) {
      const error = distance(one.colour, next.colour);
      if (error < one.error) Object.assign(one, { error, place: palette.length - 1 });
    }
  }
  return { palette, places: new Map(colours.map(({ colour, place }) => [colour, place])) };
}

function crc32(bytes) {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const out = Buffer.alloc(body.length + 8);
  out.writeUInt32BE(data.length);
  body.copy(out, 4);
  out.writeUInt32BE(crc32(body), body.length + 4);
  return out;
}

export function smallPng(bytes) {
  const all = chunksOf(bytes);
  const head = Buffer.from(all[0].data);
  const [width, height, step] = [head.readUInt32BE(0), head.readUInt32BE(4), head[9] === 6 ? 4 : 3];
  const pixels = unfilter(inflateSync(Buffer.concat(all.filter((one) => one.type === "IDAT").map((one) => one.data))), width, height, step);
  const colours = new Uint32Array(width * height).map((_, i) => (pixels[i * step] << 16) | (pixels[i * step + 1] << 8) | pixels[i * step + 2]);
  const counts = new Map();
  for (const colour of colours) counts.set(colour, (counts.get(colour) ?? 0) + 1);
  const { palette, places } = paletteOf(counts);
  const lines = Buffer.alloc((width + 1) * height);
  for (let i = 0; i < colours.length; i++) lines[Math.floor(i / width) * (width + 1) + 1 + (i % width)] = places.get(colours[i]);
  head[9] = 3; // a palette
  const parts = [chunk("IHDR", head), chunk("PLTE", Buffer.from(palette.flatMap((one) => [one >> 16, (one >> 8) & 255, one & 255]))), chunk("IDAT", deflateSync(lines, { level: 9 })), chunk("IEND", Buffer.alloc(0))];
  return Buffer.concat([bytes.subarray(0, 8), ...parts]);
}
