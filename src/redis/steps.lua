-- steps.lua: the steps of an attempt, each one call. docs/decisions/015-redis.md has the invariants.
-- No step decodes what it carries; each looks at a bounded number of items. A step may be repeated: the answer is the same.
-- The last of KEYS is PREFIX:{root}:meta. ARGV: the step, then its arguments.
local LIFE, ENDED, QUEUES, PAGE, STREAM = 604800, 120, 64, 256, 2048
local MANY, PORTION = 1000, 16 -- arguments of one command; attempts whose specifications are read before their bytes are counted
local FRONT = 1000 -- of a queue
local ENTRY = 65536 -- bytes after which an entry of the results is full
local LAYOUT = '3 ' -- of what is stored (STEPS_LAYOUT); a program with another one takes the server for another one, and leaves the run alone
local base, meta
local call -- redis.call, which is not there while the library is loaded

local function live(name) call('EXPIRE', base .. name, LIFE) end

-- One command for many items costs a tenth of one command for each. `list`: the arguments behind the key, pairs where the command takes pairs.
-- Numbers among them are texts: Redis writes a number of Lua as a float, which takes as long as a command.
local function call_many(command, key, list)
  if #list > 0 and #list <= MANY then return call(command, key, unpack(list)) end
  for from = 1, #list, MANY do call(command, key, unpack(list, from, math.min(from + MANY - 1, #list))) end
end

local function get_many(key, fields)
  if #fields == 1 then return {call('HGET', key, fields[1])} end
  local out = {}
  for from = 1, #fields, MANY do
    local to = math.min(from + MANY - 1, #fields)
    local values = call('HMGET', key, unpack(fields, from, to))
    for i = from, to do out[i] = values[i - from + 1] end
  end
  return out
end

-- Adds to the list of that name; the names are in `lists` in the order in which they came.
local function put(lists, name, value, second)
  local list = lists[name]
  if not list then
    list = {}
    lists[name] = list
    lists[#lists + 1] = name
  end
  list[#list + 1] = value
  if second then list[#list + 1] = second end
end

local function number(value) return string.format('%d', value) end

-- Nobody goes on with a server that is another one, was emptied, or is behind what the caller has seen. The last values are of meta, too: up
-- to four fields that a step needs.
local function enter(server, step, owner, ...)
  local m = call('HMGET', meta, 'server', 'step', 'phase', 'ended', 'owner', ...)
  if m[4] then return {'ENDED'} end
  if not m[1] then return {'GONE'} end
  if m[1] ~= server then return {string.match(m[1], ' (.*)') == string.match(server, ' (.*)') and 'LAYOUT' or 'SERVER'} end
  if tonumber(m[2]) < tonumber(step) then return {'BEHIND'} end
  if owner and m[5] ~= owner then return {'OWNER'} end
  return nil, m[3], m[2], m[6], m[7], m[8], m[9]
end

-- SESSION, a line end, TAGS: how `queues` names a queue.
local function parts_of(queue)
  local at = string.find(queue, '\n', 1, true)
  return string.sub(queue, 1, at - 1), string.sub(queue, at + 1)
end

local function list_of(session, tags)
  return 'queue:' .. session .. (tags ~= '' and ':' .. tags or '')
end

-- server epoch lease owner: the runner is here, and nobody claims or renews until it says open. The answer says whether the run was
-- there before: NEW, SAME, or OTHER, on another server. OTHER, too, if the one before had not opened it: what is out is not in the leases then.
local function begin(a)
  if call('HEXISTS', meta, 'ended') == 1 then call('UNLINK', meta) end
  local m = call('HMGET', meta, 'epoch', 'step', 'owner', 'server', 'was', 'phase')
  if m[3] == a[5] and m[4] == a[2] then return {'OK', m[1], m[2], m[5]} end
  local epoch = math.max((tonumber(m[1]) or 0) + 1, tonumber(a[3]))
  local step = number(epoch * 4294967296 + 1) -- steps grow over epochs, whatever the server has forgotten
  local was = not m[1] and 'NEW' or m[4] == a[2] and m[6] == 'open' and 'SAME' or 'OTHER'
  call('HSET', meta, 'server', a[2], 'epoch', number(epoch), 'step', step, 'phase', 'settling',
    'lease', a[4], 'owner', a[5], 'was', was, 'fence', number(epoch * 4294967296))
  live('meta')
  return {'OK', number(epoch), step, was}
end

-- server step owner: of a page of leases the attempts that workers have, each with its state, behind whether there may be more leases. They
-- are noted as revoked until their workers have ended them, and are not listed again. What has ended is left out.
local function holders(a)
  local bad, _, step = enter(a[2], a[3], a[4])
  if bad then return bad end
  local page = call('ZRANGE', base .. 'lease', 0, PAGE - 1)
  local out = {'OK', step, #page == PAGE and '1' or '0'}
  for _, id in ipairs(page) do
    local state = call('HGET', base .. 'state', id) or ''
    call('ZREM', base .. 'lease', id)
    if string.find(state, '^%d+ ') then
      call('HSET', base .. 'revoked', id, state)
      out[#out + 1] = id
      out[#out + 1] = state
    end
  end
  call('HSET', meta, 'revoked', '1')
  call('HSET', base .. 'revoked', '', '') -- or the server has dropped it
  live('revoked')
  return out
end

-- server step owner end: removes what is there, a page at a time; all of it with end.
local function sweep(a)
  local bad = enter(a[2], a[3], a[4])
  if bad then return (bad[1] == 'GONE' or bad[1] == 'ENDED') and {'OK', '0'} or bad end
  local names = call('SPOP', base .. 'names', PAGE)
  for _, name in ipairs(names) do call('UNLINK', base .. name) end
  if #names == PAGE then return {'OK', '1'} end
  call('UNLINK', base .. 'state', base .. 'lease', base .. 'queues', base .. 'stops', base .. 'results', base .. 'names')
  if a[5] == 'end' then -- who still has something of the run learns that it is over
    call('UNLINK', meta, base .. 'revoked')
    call('HSET', meta, 'ended', '1')
    call('EXPIRE', meta, ENDED)
  end
  return {'OK', '0'}
end

-- server step owner: attempts may be claimed. What workers write to is made here, so that it has its TTL before; by an id that is none
-- it is never empty.
local function open(a)
  local bad = enter(a[2], a[3], a[4])
  if bad then return bad end
  call('HSET', meta, 'phase', 'open')
  call('XADD', base .. 'results', '*', 't', 'open')
  call('HSET', base .. 'state', '', '')
  call('ZADD', base .. 'lease', '+inf', '')
  for _, name in ipairs({'results', 'state', 'lease'}) do live(name) end
  return {'OK', number(call('HINCRBY', meta, 'step', 1))}
end

-- Whether the server has it already: only if an answer was lost, or the server forgot, this is looked at. An attempt that waits has a
-- specification and no state.
local function is_there(phase, id, session, state)
  if state then return state ~= 'w' end
  return phase == 'open' and call('HEXISTS', base .. 'specs:' .. session, id) == 1
end

local function push_all(phase, a, at, count, is_again)
  local ids, wanted, specs, lists, names, seen = {}, {}, {}, {}, {}, {}
  for i = 1, count do ids[i] = a[at + 4 * (i - 1)] end
  local states = is_again and get_many(base .. 'state', ids)
  for i = 1, count do
    local id, session, tags, spec = ids[i], a[at + 1], a[at + 2], a[at + 3]
    at = at + 4
    if not seen[id] and not (is_again and is_there(phase, id, session, states[i])) then
      seen[id] = true
      wanted[#wanted + 1] = id
      if phase ~= 'open' then wanted[#wanted + 1] = 'w' end
      put(specs, session, id, spec)
      put(lists, session .. '\n' .. tags, id)
    end
  end
  for _, session in ipairs(specs) do call_many('HSET', base .. 'specs:' .. session, specs[session]) end
  if phase ~= 'open' then
    call_many('HSET', base .. 'state', wanted)
    live('state')
  elseif is_again then
    call_many('HDEL', base .. 'state', wanted)
  end
  for _, queue in ipairs(lists) do
    local session, tags = parts_of(queue)
    local list, waiting = list_of(session, tags), lists[queue]
    local is_new = phase ~= 'open'
    if phase == 'open' then
      call_many('RPUSH', base .. list, waiting)
      is_new = call('LLEN', base .. list) == #waiting
    end
    if is_new then
      names[#names + 1] = list
      names[#names + 1] = 'specs:' .. session
      live('specs:' .. session)
    end
    if is_new and phase == 'open' then
      live(list)
      call('ZADD', base .. 'queues', 'NX', number(call('HINCRBY', meta, 'turn', 1)), queue)
      live('queues')
    end
  end
  if #names > 0 and call('SADD', base .. 'names', unpack(names)) > 0 then live('names') end
end

-- server step owner how trim acks {id session} pushes {id session tags spec}. An id is pushed once: what was taken back has a new one.
-- `how` has an a if some of it may have been pushed before, an l if the keys are to live on.
local function advance(a)
  local bad, phase, step, has_stops = enter(a[2], a[3], a[4], 'stops')
  if bad then return bad end
  local at, acks, ids, specs = 8, tonumber(a[7]), {}, {}
  for i = 1, acks do
    ids[i] = a[at]
    put(specs, a[at + 1], a[at])
    at = at + 2
  end
  call_many('HDEL', base .. 'state', ids)
  call_many('ZREM', base .. 'lease', ids)
  if has_stops then call_many('HDEL', base .. 'stops', ids) end
  for _, session in ipairs(specs) do call_many('HDEL', base .. 'specs:' .. session, specs[session]) end
  if a[6] ~= '' then call('XTRIM', base .. 'results', 'MINID', a[6]) end
  push_all(phase, a, at + 1, tonumber(a[at]), string.find(a[5], 'a', 1, true))
  step = number(call('HINCRBY', meta, 'step', 1))
  if string.find(a[5], 'l', 1, true) then
    for _, name in ipairs({'meta', 'state', 'lease', 'results', 'queues', 'names', 'stops'}) do live(name) end
    -- Of many names others are chosen each time, so that none is left out for a week.
    for _, name in ipairs(call('SRANDMEMBER', base .. 'names', PAGE)) do live(name) end
  end
  return {'OK', step}
end

-- The values of a session up to that version are not needed any more.
local function forget_values(key, old)
  for _, version in ipairs(call('HKEYS', base .. key)) do
    if tonumber(version) <= tonumber(old) then call('HDEL', base .. key, version) end
  end
end

-- server step owner {session old}: of sessions that have ended.
local function forget(a)
  local bad, _, step = enter(a[2], a[3], a[4])
  if bad then return bad end
  for at = 5, #a, 2 do forget_values('channel:' .. a[at], a[at + 1]) end
  return {'OK', step}
end

-- server step owner session version text: the values of a session, once per version; the versions up to `old` are not needed any more.
local function channel(a)
  local bad = enter(a[2], a[3], a[4])
  if bad then return bad end
  local key = 'channel:' .. a[5]
  forget_values(key, a[8])
  call('HSET', base .. key, a[6], a[7])
  call('SADD', base .. 'names', key)
  live(key)
  return {'OK'}
end

-- While the run is open, results that the server has dropped are not made anew: their absence is what the runner notices.
local function report(phase, ...)
  if phase == 'open' then
    call('XADD', base .. 'results', 'NOMKSTREAM', '*', ...)
  else
    call('XADD', base .. 'results', '*', ...)
    live('results')
  end
end

-- What a call does with attempts is one entry of the results: ends (e id, b result), then claims (c id, f fence). It is more than one if it
-- is long.
local function note(work, key, id, field, value)
  local entry = work[#work]
  if not entry or #entry > MANY - 4 or work.bytes > ENTRY then
    entry = {'t', 'work', 'w', work.worker, 'n', work.name}
    work[#work + 1] = entry
    work.bytes = 0
  end
  local n = #entry
  entry[n + 1], entry[n + 2], entry[n + 3], entry[n + 4] = key, id, field, value
  work.bytes = work.bytes + #value
end

local function write_work(phase, work)
  call_many('HSET', base .. 'state', work.states)
  for _, entry in ipairs(work) do report(phase, unpack(entry)) end
end

-- The ends of attempts, a letter for each: y it counts, d not yet (the runner has not said what is out), a it is known or nobody waits for it
-- any more. From a[at] on: id fence result.
-- The leases of what has ended are removed with the acknowledgement, many at a time.
local function complete_all(phase, has_revoked, work, a, at, count)
  if count == 0 then return '' end
  local ids, letters, states, done, worker = {}, {}, work.states, {}, work.worker
  for i = 1, count do ids[i] = a[at + 3 * (i - 1)] end
  local known = get_many(base .. 'state', ids)
  for i = 1, count do
    local id, fence = ids[i], a[at + 1]
    local mine, state = fence .. ' ' .. worker, done[ids[i]] or known[i]
    if has_revoked and call('HGET', base .. 'revoked', id) == mine then call('HDEL', base .. 'revoked', id) end
    if phase == 'settling' and not state then
      letters[i] = 'd'
    elseif state == mine or (phase == 'settling' and state == 'w') then
      letters[i] = 'y'
      done[id] = 'd ' .. mine
      states[#states + 1] = id
      states[#states + 1] = done[id]
      note(work, 'e', id, 'b', a[at + 2])
    else
      letters[i] = 'a'
    end
    at = at + 3
  end
  return table.concat(letters)
end

local function has_tags(wanted, tags)
  for tag in string.gmatch(wanted, '[^,]+') do
    if not string.find(tags, ',' .. tag .. ',', 1, true) then return false end
  end
  return true
end

-- Takes up to PORTION of the list, fewer when their bytes are enough: what is too much goes back to its front. Returns the ids, their
-- specifications, the bytes that are left, and whether the list is empty.
local function take_portion(list, session, most, bytes)
  local asked = math.min(most, PORTION)
  local ids = call('LPOP', list, asked) or {}
  local specs, count = get_many(base .. 'specs:' .. session, ids), 0
  while count < #ids and bytes > 0 do
    count = count + 1
    bytes = bytes - #(specs[count] or '')
  end
  local is_empty = #ids < asked
  for i = #ids, count + 1, -1 do
    call('LPUSH', list, ids[i])
    ids[i] = nil
    is_empty = false
  end
  return ids, specs, bytes, is_empty
end

local function add_claim(out, id, fence, session, spec)
  local n = #out
  out[n + 1], out[n + 2], out[n + 3], out[n + 4] = id, fence, session, spec
end

-- Claims for a worker: out gets id, fence, session and specification of each. What was answered is kept as lines, for an answer that is lost.
local function claim(out, fence, work, max, bytes, tags)
  local lines, states, leases, worker = {}, work.states, {}, work.worker
  local queues = call('ZRANGE', base .. 'queues', 0, QUEUES - 1)
  for _, queue in ipairs(queues) do
    local session, wanted = parts_of(queue)
    local list, taken, is_empty, ids, specs = base .. list_of(session, wanted), 0, false, nil, nil
    if has_tags(wanted, tags) then
      while #lines < max and bytes > 0 and not is_empty do
        ids, specs, bytes, is_empty = take_portion(list, session, max - #lines, bytes)
        for i, id in ipairs(ids) do
          if specs[i] then -- or the server has dropped them, which the runner notices
            fence = fence + 1
            local text, n = number(fence), #leases
            lines[#lines + 1] = id .. ' ' .. text .. ' ' .. session .. '\n'
            states[#states + 1] = id
            states[#states + 1] = text .. ' ' .. worker
            note(work, 'c', id, 'f', text)
            leases[n + 1], leases[n + 2] = text, id
            add_claim(out, id, text, session, specs[i])
          end
        end
        taken = taken + #ids
      end
      if is_empty then
        call('ZREM', base .. 'queues', queue)
      elseif taken > 0 and #queues > 1 then
        call('ZADD', base .. 'queues', number(call('HINCRBY', meta, 'turn', 1)), queue)
      end
    end
    if #lines >= max or bytes <= 0 then break end
  end
  call_many('ZADD', base .. 'lease', leases)
  return table.concat(lines), number(fence)
end

-- The same answer again; the specifications are still there. A worker counts its lease from its last request, so an answer that is repeated
-- renews, and leaves out what was taken back meanwhile.
local function claim_again(out, lines, worker)
  local tick = number(call('HINCRBY', meta, 'fence', 1))
  for id, fence, session in string.gmatch(lines, '([^ \n]+) ([^ \n]+) ([^\n]*)\n') do
    local spec = call('HGET', base .. 'specs:' .. session, id)
    if spec and call('HGET', base .. 'state', id) == fence .. ' ' .. worker then
      call('ZADD', base .. 'lease', tick, id)
      add_claim(out, id, fence, session, spec)
    end
  end
end

-- server step worker number name tags max bytes ends {id fence result}: ends some attempts, claims others.
local function next_ones(a)
  local field, ends = 'c:' .. a[4], tonumber(a[10])
  local bad, phase, step, lease, has_revoked, fence, last = enter(a[2], a[3], nil, 'lease', 'revoked', 'fence', field)
  if bad then return bad end
  local work = {worker = a[4], name = a[6], states = {}, bytes = 0}
  local out = {'OK', step, lease, complete_all(phase, has_revoked, work, a, 11, ends), phase}
  local is_again = last and string.sub(last, 1, #a[5] + 1) == a[5] .. '\n'
  if not is_again and phase == 'open' and a[8] ~= '0' then
    local lines, reached = claim(out, tonumber(fence), work, tonumber(a[8]), tonumber(a[9]), a[7])
    call('HSET', meta, field, a[5] .. '\n' .. lines, 'fence', reached)
  end
  write_work(phase, work)
  if is_again then claim_again(out, string.sub(last, #a[5] + 2), a[4]) end
  return out
end

-- server step worker leases {id fence} kept {id fence}. Of a lease: k kept, s kept but it is to be stopped, l lost, w nobody renews now.
-- Of a result that is kept: a the runner has it, d it is on its way or nobody has asked yet, w it is wanted again.
local function renew(a)
  local bad, phase, step = enter(a[2], a[3])
  if bad then return bad end
  local letters, at, tick = {}, 6, nil
  for _ = 1, tonumber(a[5]) do
    local letter = 'l'
    if phase ~= 'open' then
      letter = 'w'
    elseif call('HGET', base .. 'state', a[at]) == a[at + 1] .. ' ' .. a[4] then
      tick = tick or number(call('HINCRBY', meta, 'fence', 1))
      call('ZADD', base .. 'lease', tick, a[at])
      letter = call('HEXISTS', base .. 'stops', a[at]) == 1 and 's' or 'k'
    end
    letters[#letters + 1] = letter
    at = at + 2
  end
  local kept = tonumber(a[at])
  at = at + 1
  for _ = 1, kept do
    local state = call('HGET', base .. 'state', a[at])
    local is_due = state == 'd ' .. a[at + 1] .. ' ' .. a[4] or (phase == 'settling' and not state)
    letters[#letters + 1] = is_due and 'd' or state == 'w' and 'w' or 'a'
    at = at + 2
  end
  return {'OK', step, table.concat(letters)}
end

-- server step worker n {id fence} why: the worker has ended them, whole trees. y it was its own, n it was not. `why` may be missing.
local function give_back(a)
  local bad, phase, step = enter(a[2], a[3])
  if bad then return bad end
  local letters, at, why = {}, 6, a[6 + 2 * tonumber(a[5])] or 'back'
  for i = 1, tonumber(a[5]) do
    letters[i] = 'n'
    if call('HGET', base .. 'revoked', a[at]) == a[at + 1] .. ' ' .. a[4] then call('HDEL', base .. 'revoked', a[at]) end
    if call('HGET', base .. 'state', a[at]) == a[at + 1] .. ' ' .. a[4] then
      letters[i] = 'y'
      call('HSET', base .. 'state', a[at], 'b')
      call('ZREM', base .. 'lease', a[at])
      report(phase, 't', why, 'i', a[at], 'f', a[at + 1], 'w', a[4])
    end
    at = at + 2
  end
  return {'OK', step, table.concat(letters)}
end

-- Whether an attempt that nobody has claimed is where it was put. Of a long queue only the front is looked at.
local function is_waiting(id, session, tags)
  local list = base .. list_of(session, tags)
  if call('HEXISTS', base .. 'state', id) == 1 then return true end
  if call('HEXISTS', base .. 'specs:' .. session, id) == 0 or not call('ZSCORE', base .. 'queues', session .. '\n' .. tags) then
    return false
  end
  return call('LPOS', list, id, 'MAXLEN', FRONT) or call('LLEN', list) > FRONT
end

-- A server that is short of memory may drop keys of a run one by one. What open has put there is missing then, also if the key was made
-- anew since.
local function has_all()
  return call('EXISTS', base .. 'results') == 1 and call('HEXISTS', base .. 'state', '') == 1 and call('ZSCORE', base .. 'lease', '')
end

-- server step owner id session tags: the leases that were renewed longest ago, each with its tick. `id` has waited longest; it may be ''.
local function leases(a)
  local bad, phase, step = enter(a[2], a[3], a[4])
  if bad then return bad end
  if phase == 'open' and not (has_all() and (a[5] == '' or is_waiting(a[5], a[6], a[7]))) then return {'GONE'} end
  local out, all = {'OK', step}, call('ZRANGE', base .. 'lease', 0, PAGE - 1, 'WITHSCORES')
  for i = 1, #all, 2 do
    if all[i] ~= '' then
      out[#out + 1] = all[i]
      out[#out + 1] = all[i + 1]
    end
  end
  return out
end

-- server step owner n {id tick}: a lease that nobody has renewed since that tick is over. It is in the results, because an answer may be lost.
local function reclaim(a)
  local bad, phase, step = enter(a[2], a[3], a[4])
  if bad then return bad end
  local letters, at = {}, 6
  for i = 1, tonumber(a[5]) do
    local score = call('ZSCORE', base .. 'lease', a[at])
    letters[i] = 'n'
    if score and tonumber(score) == tonumber(a[at + 1]) and string.find(call('HGET', base .. 'state', a[at]) or '', '^%d+ ') then
      letters[i] = 'y'
      call('ZREM', base .. 'lease', a[at])
      call('HSET', base .. 'state', a[at], 'b')
      report(phase, 't', 'lease', 'i', a[at])
    end
    at = at + 2
  end
  return {'OK', step, table.concat(letters)}
end

-- server step owner n {id session tags}: per attempt `gone`, `done`, or the worker that has it and is to be told.
local function stop(a)
  local bad, _, step = enter(a[2], a[3], a[4])
  if bad then return bad end
  local out, at = {'OK', step}, 6
  for _ = 1, tonumber(a[5]) do
    local state = call('HGET', base .. 'state', a[at]) or ''
    local worker = string.match(state, '^%d+ (.+)$')
    if worker then
      call('HSET', base .. 'stops', a[at], '1')
      call('HSET', meta, 'stops', '1')
      live('stops')
      out[#out + 1] = 'at ' .. worker
    elseif string.sub(state, 1, 2) == 'd ' then
      out[#out + 1] = 'done'
    else
      call('LREM', base .. list_of(a[at + 1], a[at + 2]), 1, a[at])
      call('HDEL', base .. 'state', a[at])
      call('HDEL', base .. 'specs:' .. a[at + 1], a[at])
      out[#out + 1] = 'gone'
    end
    at = at + 3
  end
  return out
end

-- server step worker id fence offset bytes is_rest: y, n it is not the worker's any more, f there is no room now. The rest of a log, which
-- goes before the end of its attempt, never waits for room.
local function log(a)
  local bad, phase, step = enter(a[2], a[3])
  if bad then return bad end
  if call('HGET', base .. 'state', a[5]) ~= a[6] .. ' ' .. a[4] then return {'OK', step, 'n'} end
  if a[9] ~= '1' and call('XLEN', base .. 'results') >= STREAM then return {'OK', step, 'f'} end
  report(phase, 't', 'log', 'i', a[5], 'f', a[6], 'o', a[7], 'b', a[8])
  return {'OK', step, 'y'}
end

local steps = {begin = begin, holders = holders, sweep = sweep, open = open, advance = advance, channel = channel, forget = forget, next = next_ones,
  leases = leases, renew = renew, give_back = give_back, reclaim = reclaim, stop = stop, log = log}

local function main(keys, argv)
  call = redis.call
  meta = keys[#keys]
  base = string.sub(meta, 1, -5)
  argv[2] = LAYOUT .. argv[2]
  return steps[argv[1]](argv)
end
