// @ts-check
// The drawings, as paths of 24 by 24.

export const ICONS = {
  tools: "M4 7h10M18 7h2M4 12h2M10 12h10M4 17h8M16 17h4M16 5v4M8 10v4M14 15v4",
  sessions: "M4 5h12v8H9l-4 3.5V13H4zM19 9h1v8h-1v3l-4-3h-5",
  workflows: "M6 5v14M6 8h6a3 3 0 0 1 3 3v2a3 3 0 0 0 3 3M4.5 5h3M4.500 19h3M16.500 16h3",
  resources: "M6 3.500h8l4 4v13H6zM14 3.500v4h4M9 12h6M9 16h6",
  prompts: "M4 6h16v10H12l-4 4v-4H4zM8 10h8M8 13h5",
  upstreams: "M12 4v6M12 10H6v4M12 10h6v4M9.500 4h5M4 14h4v5H4zM16 14h4v5h-4z",
  traffic: "M4 8h14l-3-3M20 16H6l3 3",
  server: "M4 5h16v6H4zM4 13h16v6H4zM7.500 8h.01M7.500 16h.01M11 8h5M11 16h5",
  search: "M10.500 17a6.500 6.500 0 1 0 0-13 6.500 6.500 0 0 0 0 13zM20 20l-4.800-4.800",
  back: "M14 6l-6 6 6 6",
  plus: "M12 5v14M5 12h14",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  copy: "M8 8h11v11H8zM5 15V5h10",
  check: "M5 12.500l4.500 4.500L19 7.500",
  cross: "M6 6l12 12M18 6L6 18",
  pause: "M8 5v14M16 5v14",
  play: "M7 5l12 7-12 7z",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.500 1.500M17.500 17.500L19 19M19 5l-1.500 1.500M6.500 17.500L5 19",
};
