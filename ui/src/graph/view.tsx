// The graph of a run, and the bars below it that show the same against time.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Graph, RunDetail } from "../api/types";
import { useKey } from "../keys";
import { useTick, useWorld } from "../store";
import { t } from "../text";
import { Bars } from "./bars";
import { Arcs, ScopePicture } from "./draw";
import { arcsOf, layout, size } from "./layout";
import { showGraph, viewsOf, withSpawned } from "./model";

const ZOOM_MIN = 0.1, ZOOM_MAX = 2, HEIGHT_MAX = 420;

interface Props {
  run: RunDetail;
  graph: Graph;
  selected: string;
  onSelect: (task: string) => void;
}

/** Moves the picture without drawing it again. */
class Camera {
  x = 0;
  y = 0;
  zoom = 1;
  constructor(readonly group: SVGGElement) {}
  apply(): void {
    this.group.setAttribute("transform", `translate(${this.x} ${this.y}) scale(${this.zoom})`);
  }
  fit(w: number, h: number, width: number, height: number, most: number): void {
    this.zoom = Math.max(ZOOM_MIN, Math.min(most, width / w, height / h));
    this.x = Math.max(0, (width - w * this.zoom) / 2);
    this.y = Math.max(0, (height - h * this.zoom) / 2);
    if (w * this.zoom < width) this.x = 0;
    this.apply();
  }
  by(factor: number, cx: number, cy: number): void {
    const zoom = Math.max(ZOOM_MIN, Math.min(ZOOM_MAX, this.zoom * factor));
    this.x = cx - ((cx - this.x) * zoom) / this.zoom;
    this.y = cy - ((cy - this.y) * zoom) / this.zoom;
    this.zoom = zoom;
    this.apply();
  }
}

function Picture({ run, graph, selected, onSelect }: Props): JSX.Element {
  const events = useWorld((w) => w.events);
  const views = viewsOf(run, events);
  const shown = showGraph(graph.scope, views, selected);
  const structure = JSON.stringify(shown.edges) + shown.nodes.map((one) => one.key + (one.kind === "stack" ? one.views.length : one.kind === "group" ? JSON.stringify(one.branches.map((b) => b.nodes.map((n) => n.key))) : "")).join();
  const placed = useMemo(() => layout(shown), [structure, views.size, statesKey(views)]);
  const arcs = useMemo(() => arcsOf(placed, graph.jumps ?? []), [placed, graph]);
  const all = size(placed), w = all.w, h = Math.max(all.h, ...arcs.map((one) => one.y + 8));
  const frame = useRef<HTMLDivElement>(null), group = useRef<SVGGElement>(null), camera = useRef<Camera | null>(null);
  const [zoom, setZoom] = useState(100);
  const [width, setWidth] = useState(() => innerWidth - 320);
  const height = Math.max(90, Math.min(HEIGHT_MAX, h * Math.min(1, width / w)));
  const act = (run: (camera: Camera, width: number) => void): void => {
    if (!group.current || !frame.current) return;
    camera.current ??= new Camera(group.current);
    run(camera.current, frame.current.clientWidth);
    setZoom(Math.round(camera.current.zoom * 100));
  };
  const fit = (): void => act((one, width) => one.fit(w, h, width, height, 1));
  const scale = (factor: number): void => act((one, width) => one.by(factor, width / 2, height / 2));
  useEffect(() => {
    camera.current = null;
    fit();
  }, [run.run_id, w, h, width, height]);
  useEffect(() => {
    const watch = new ResizeObserver(() => frame.current && setWidth(frame.current.clientWidth));
    if (frame.current) watch.observe(frame.current);
    return () => watch.disconnect();
  }, []);
  useKey("+", () => scale(1.25));
  useKey("-", () => scale(0.8));
  useKey("0", fit);
  const drag = useRef<{ x: number; y: number } | null>(null);
  return (
    <div class="graph" ref={frame} onKeyDown={(event) => arrows(event, frame.current, onSelect)}>
      <svg
        width="100%"
        height={height}
        role="group"
        aria-label={t("graph.label", { flow: graph.name })}
        onPointerDown={(event) => {
          if (event.button === 0) drag.current = { x: event.clientX, y: event.clientY };
        }}
        onPointerMove={(event) => {
          const from = drag.current;
          if (!from || event.buttons === 0 || !camera.current) return;
          camera.current.x += event.clientX - from.x;
          camera.current.y += event.clientY - from.y;
          drag.current = { x: event.clientX, y: event.clientY };
          camera.current.apply();
        }}
        onPointerUp={() => (drag.current = null)}
        onWheel={(event) => {
          if (!event.ctrlKey) return;
          event.preventDefault();
          const box = event.currentTarget.getBoundingClientRect();
          act((one) => one.by(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top));
        }}
      >
        <defs>
          <marker id="jump" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" markerHeight="6" orient="auto">
            <path class="tip" d="M0 0L6 3L0 6z" />
          </marker>
        </defs>
        <g ref={group}>
          <Arcs arcs={arcs} />
          <ScopePicture scope={placed} depth={0} selected={selected} onSelect={onSelect} />
        </g>
      </svg>
      <div class="zoom" role="group" aria-label={t("graph.zoom")}>
        <button type="button" aria-label={t("graph.smaller")} onClick={() => scale(0.8)}>−</button>
        <span class="num">{zoom} %</span>
        <button type="button" aria-label={t("graph.larger")} onClick={() => scale(1.25)}>+</button>
        <button type="button" onClick={fit}>{t("graph.fit")}</button>
      </div>
    </div>
  );
}

function statesKey(views: ReturnType<typeof viewsOf>): string {
  let key = "";
  for (const view of views.values()) key += `${view.state} ${view.times.length} ${view.times[view.times.length - 1]?.to ?? ""} ${view.task?.next_try_at ?? ""};`;
  return key;
}

/** Arrows go to the nearest node in that direction. */
function arrows(event: KeyboardEvent, frame: HTMLElement | null, onSelect: (task: string) => void): void {
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  const here = document.activeElement?.closest<SVGGElement>("[data-task]");
  if (!step || !here || !frame) return;
  event.preventDefault();
  const [dx = 0, dy = 0] = step;
  const from = here.getBoundingClientRect();
  let best: SVGGElement | null = null, least = Infinity;
  for (const one of frame.querySelectorAll<SVGGElement>("[data-task]")) {
    const box = one.getBoundingClientRect();
    const x = box.left + box.width / 2 - from.left - from.width / 2, y = box.top + box.height / 2 - from.top - from.height / 2;
    const ahead = x * dx + y * dy, aside = Math.abs(x * dy) + Math.abs(y * dx);
    if (ahead > 5 && ahead + 2 * aside < least) {
      least = ahead + 2 * aside;
      best = one;
    }
  }
  if (best) {
    onSelect(best.dataset["task"] ?? "");
    best.focus();
  }
}

export function GraphView(props: Props & { part: "graph" | "bars" }): JSX.Element {
  useTick();
  const whole = useMemo(() => withSpawned(props.graph), [props.graph]);
  return props.part === "graph" ? <Picture {...props} graph={whole} /> : <Bars {...props} graph={whole} />;
}
