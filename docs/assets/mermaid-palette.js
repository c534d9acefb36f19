// Material hands Mermaid a style; add to it what the palette's classes mean (`A[Prompt]:::prefill`).
// The colours are inferlab.css's variables, so they follow the theme.
{
  const names = ["prefill", "decode", "cache", "idle", "failure"]
  const shapes = ["rect", "circle", "ellipse", "polygon", "path"]
  const palette = names.map(name => {
    const bodies = shapes.map(shape => `.node.${name} ${shape}`).join(",")
    return `${bodies}{fill:var(--il-${name});stroke:var(--il-${name})}` +
      `.node.${name} .nodeLabel,.node.${name} .nodeLabel p{color:var(--il-on-color)}` +
      `.cluster.${name} rect{stroke:var(--il-${name});stroke-width:2px}`
  }).join("")
  const initialize = mermaid.initialize
  mermaid.initialize = config => initialize({ ...config, themeCSS: (config.themeCSS || "") + palette })
}
