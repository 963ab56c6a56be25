// Colors of weights: lightness changes in one direction only, so the order is seen without color vision, and in print.

// from nothing to all; in the dark, light is much; in the light, dark is much
const LIGHT = ["#f6f6f3", "#e2f2ec", "#bfe4da", "#86cfc4", "#4fb0b4", "#348ca6", "#316896", "#33457f", "#2c2659", "#180f33"];
const DARK = ["#191c24", "#212439", "#2b2f55", "#304a7d", "#2f6a95", "#338ba5", "#4dafb0", "#83cdbd", "#bfe5d3", "#f2fbf2"];
// from less to more, through nothing
const SIGNED_LIGHT = ["#7a2f06", "#b4520f", "#df8b45", "#f3c79b", "#ffffff", "#b9d3ee", "#6ea3d8", "#2f6cb4", "#123f7d"];
const SIGNED_DARK = ["#ffcf9e", "#f2a05a", "#c26a22", "#6f3d16", "#14171d", "#1b3a63", "#2f6cb4", "#6ea3e0", "#b5d5fb"];
const OVER = ["#2c115f", "#5f187f", "#982d80", "#d3436e", "#f8765c", "#febb81", "#fcfdbf"]; // over pictures
export const CATEGORIES = ["#2a78b5", "#d1611b", "#1f8a70", "#8a5cd1", "#b08a00", "#c2417c", "#4d7d28", "#6b6f7a"];

const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const linear = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
const companded = (c) => Math.round(255 * (c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055));

function oklab(hex) {
  const [r, g, b] = rgb(hex).map(linear);
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function fromOklab([lightness, a, b]) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((c) => companded(Math.min(1, Math.max(0, c))));
}

// 256 colors through the given ones
function ramp(stops) {
  const points = stops.map(oklab);
  return Array.from({ length: 256 }, (_, level) => {
    const place = (level / 255) * (points.length - 1);
    const left = Math.min(Math.floor(place), points.length - 2);
    return fromOklab(points[left].map((value, i) => value + (place - left) * (points[left + 1][i] - value)));
  });
}

class Palette {
  constructor(stops) {
    this.colors = ramp(stops);
    this.words = Uint32Array.from(this.colors, ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r); // as in ImageData
  }
  css(level) {
    return `rgb(${this.colors[Math.max(0, Math.min(255, Math.round(level)))].join(" ")})`;
  }
  // black or white, whichever can be read on it
  ink(level) {
    const [r, g, b] = this.colors[Math.max(0, Math.min(255, Math.round(level)))].map(linear);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.19 ? "#10131a" : "#ffffff";
  }
}

const made = {};
const palette = (name, stops) => (made[name] ??= new Palette(stops));
export const sequential = (dark) => (dark ? palette("dark", DARK) : palette("light", LIGHT));
export const diverging = (dark) => (dark ? palette("signedDark", SIGNED_DARK) : palette("signedLight", SIGNED_LIGHT));
export const overlay = () => palette("over", OVER);

// a weight as one of 256 levels: its square root, so that small weights are seen
export const level = (weight, limit) => 255 * Math.sqrt(Math.max(0, Math.min(1, weight / limit)));
export const signedLevel = (value, limit) => 127.5 + 127.5 * Math.sign(value) * Math.sqrt(Math.min(1, Math.abs(value) / limit));
